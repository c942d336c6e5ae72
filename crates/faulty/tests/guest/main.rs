//! What becomes of policies that are for tests, on a real kernel.
//!
//! It changes the scheduler of the machine that it runs on, so it is for the guest:
//! `make test-guest`. Elsewhere it fails.

mod quarantine;
mod services;
