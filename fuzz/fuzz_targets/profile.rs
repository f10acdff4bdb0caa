//! The profile of the program, with the program's own files, as it is no library.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/cli/src/failure.rs"]
mod failure;
#[path = "../../crates/cli/src/profile.rs"]
mod profile;
#[allow(dead_code)]
#[path = "../../crates/cli/src/settings.rs"]
mod settings;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| profile::check(input));
