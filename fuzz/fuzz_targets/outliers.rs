//! Reads, checks and repairs arbitrary documents as a main document and its overflow documents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mongo_patterns_outlier::fuzzing;

fuzz_target!(|input: &[u8]| fuzzing::stored(input));
