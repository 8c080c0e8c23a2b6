//! What several families of tests need.

pub mod child;
pub mod devices;
pub mod exact;
pub mod network;
pub mod numbers;
pub mod program;
pub mod steps;
