//! What several families of tests need.

pub mod child;
pub mod network;
