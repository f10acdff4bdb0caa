//! Parses the profile of the command line program. Includes the program's source files, because it is not a library.
#![no_main]
#![allow(dead_code, unused_imports, unused_macros)] // the target includes whole sources of the program

#[path = "../../crates/cli/src/document_settings.rs"]
mod document_settings;
#[path = "../../crates/cli/src/failure.rs"]
mod failure;
#[path = "../../crates/cli/src/profile.rs"]
mod profile;
#[path = "../../crates/cli/src/settings.rs"]
mod settings;
#[path = "../../crates/cli/src/words.rs"]
mod words;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| profile::check(input));
