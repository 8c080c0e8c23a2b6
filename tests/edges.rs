//! Values, shapes and layouts at the edge of what Burn allows. Expected values are Rust's exact arithmetic, what
//! PyTorch 2.11 prints, or those of burn-flex.

mod empty;
mod integers;
mod layouts;
mod powers;
mod ranks;
mod undefined;
