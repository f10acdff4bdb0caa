//! Changes of a token's text.

use std::collections::BTreeSet;

use mongo_patterns::{Error, ErrorKind};

/// Every text that differs in one byte, and others that an attacker may try.
pub fn changes(token: &str) -> BTreeSet<String> {
    const OTHERS: &str = "09afA_.-%+$é\0 `";
    let mut texts = BTreeSet::from([String::new(), token.repeat(2), token.to_uppercase()]);
    for at in 0..token.len() {
        let (before, after) = (&token[..at], &token[at + 1..]);
        texts.extend([before.to_owned(), token[at..].to_owned(), format!("{before}{after}")]);
        let bits = (0..7).map(|bit| char::from(token.as_bytes()[at] ^ (1 << bit)));
        for other in OTHERS.chars().chain(bits) {
            texts.insert(format!("{before}{other}{after}"));
            texts.insert(format!("{before}{other}{}", &token[at..]));
        }
    }
    texts.remove(token);
    texts
}

pub fn is_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}
