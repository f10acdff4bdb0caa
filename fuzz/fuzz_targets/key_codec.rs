//! Decodes keys, from text and from stored values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mongo_patterns_core::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::key_codec(input));
