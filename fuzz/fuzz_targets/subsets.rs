//! Reads arbitrary documents as parents, children and change events of a subset.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mongo_patterns_subset::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::stored(input));
