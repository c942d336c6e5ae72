//! Nothing but the simulator's tests, which stand beside this file.
