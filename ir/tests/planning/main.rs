//! Planning from outside: a plan computes what the graph says, with as few kernels as promised.
//!
//! Both are executed by interpreters in which every element type is a wrapping integer of its
//! size: then sums and products do not depend on the order, and any difference is a mistake.

mod arithmetic;
mod attention;
mod contractions;
mod fusion;
mod graph_interpreter;
mod memory;
mod plan_interpreter;
mod properties;
mod random;
