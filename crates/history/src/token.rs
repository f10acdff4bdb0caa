//! Positions in the history of a document.

mongo_patterns_core::number_token! {
    /// A position in the history of a document, from a page of [`revisions`](crate::HistoryRepository::revisions). It stays
    /// valid when its revision is deleted.
    RevisionToken(u64), 0, i64::MAX.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::ErrorKind;

    use super::RevisionToken;

    #[test]
    fn a_token_is_parsed_from_its_own_text_alone() {
        let token = RevisionToken::after(17);
        assert_eq!(token.to_string().parse::<RevisionToken>().unwrap(), token);
        for forged in ["", "017", "+17", "-1", "17 ", "x", "18446744073709551616"] {
            let error = forged.parse::<RevisionToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{forged}");
        }
    }
}
