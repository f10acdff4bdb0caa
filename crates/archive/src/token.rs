//! Positions among the documents of both collections, and of a trash.

mongo_patterns_core::date_token! {
    /// A position among documents in the order of their ages, from a page of [`list`](crate::Archive::list).
    ///
    /// Its text is safe in a URL. It contains the age and the `_id` of a document: do not hand it to someone who must not
    /// see them. A forged token can only select another position. A token stays valid when documents are archived, restored
    /// or deleted.
    ArchiveToken, "the token is not one of an archive: pass it on unchanged"
}

mongo_patterns_core::date_token! {
    /// A position among the entries of a trash, from a page of [`list`](crate::Trash::list).
    ///
    /// Its text is safe in a URL. A forged token can only select another position. A token stays valid when entries are
    /// deleted or restored.
    TrashToken, "the token is not one of a trash: pass it on unchanged"
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::{ErrorKind, token};
    use mongodb::bson::{Bson, DateTime};

    use super::*;

    #[test]
    fn a_token_is_parsed_from_its_own_text_alone() {
        let of = |values: &[Bson]| token::Text(values).to_string();
        let date = Bson::DateTime(DateTime::from_millis(1));
        let text = of(&[date.clone(), 7.into()]);
        assert_eq!(text.parse::<ArchiveToken>().unwrap().to_string(), text);
        for text in [String::new(), "xyz".to_owned(), of(&[date])] {
            let error = text.parse::<ArchiveToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
            assert!(text.parse::<TrashToken>().is_err(), "{text}");
        }
    }
}
