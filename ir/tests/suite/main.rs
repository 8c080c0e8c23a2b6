//! The intermediate representation from outside: text in, text out.

mod infer;
mod plan_text;
mod random;
mod text;
mod verify_graph;
mod verify_kernel;
