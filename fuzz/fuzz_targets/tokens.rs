//! Decodes the tokens of all repositories.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    mongo_patterns_bucket::fuzzing::tokens(input);
    mongo_patterns_subset::fuzzing::tokens(input);
});
