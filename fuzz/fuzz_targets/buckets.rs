//! Reads, checks and repairs arbitrary documents as buckets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mongo_patterns_bucket::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::stored(input));
