//! Every operation at random shapes, types, layouts and values, against burn-flex in f64 and arithmetic in f64;
//! integers and truth values exactly.
//!
//! The files of the families have tables: how an operation's arguments are drawn, what it computes, how far it may be
//! off. A case is a few numbers that proptest draws and shrinks; a failure prints the smallest case that was found.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `BURN_MLIR_PROPERTY_CASES` | cases of all families together | 1000 |
//! | `BURN_MLIR_PROPERTY_SEED` | another seed tries other cases | 1 |
//! | `BURN_MLIR_PROPERTY_THREADS` | threads of each family | 1 |
//! | `BURN_MLIR_PROPERTY_ONLY` | the name of the only operation to try | all |

mod chains;
mod choices;
mod compare;
mod floats;
mod indexing;
mod ints;
mod layout;
pub mod numbers;
mod operation;
mod products;
mod reductions;
mod resampling;
mod run;
mod value;
mod views;
