//! Keys, as text and as stored values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mongo_patterns_core::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::key_codec(input));
