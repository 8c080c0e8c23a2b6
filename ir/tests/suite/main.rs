//! The intermediate representation from outside: text in, text out.

mod infer;
mod opened;
mod plan_text;
mod planned;
mod random;
mod text;
mod valid;
mod verify_graph;
mod verify_kernel;
