//! Reads and checks arbitrary documents as parents with embedded children.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mongo_patterns_embedded::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::stored(input));
