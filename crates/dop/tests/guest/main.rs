//! What needs a C compiler: the page in C, and programs with OpenMP into which the library is
//! preloaded.

mod host;
mod page;
mod regions;
