//! Errors as data, for programs that say or log them in their own form.

use serde::{Serialize, Serializer};

use super::driver::{code, is_authentication};
use super::kind::Class;
use super::{Error, ErrorKind, Remedy};

/// The server's code for an invalid name of a database or a collection.
const INVALID_NAMESPACE: i32 = 73;

impl Error {
    /// Returns what to do, if a program can name it in its own terms, such as the options of a command line.
    ///
    /// ```
    /// # use mongo_patterns::{Error, ErrorKind, Remedy};
    /// let error = Error::new(ErrorKind::Contention, "other writers were faster");
    /// assert_eq!(error.remedy(), Some(Remedy::Retry));
    /// ```
    pub fn remedy(&self) -> Option<Remedy> {
        let cause = self.as_driver_error();
        self.0.remedy.or_else(|| match self.kind() {
            ErrorKind::ServerSelection => Some(Remedy::CheckAddress),
            ErrorKind::Unauthorized if cause.is_some_and(is_authentication) => Some(Remedy::CheckCredentials),
            ErrorKind::Unauthorized => Some(Remedy::GrantRole),
            _ if cause.and_then(code) == Some(INVALID_NAMESPACE) => Some(Remedy::CheckNames),
            _ => self.is_transient().then_some(Remedy::Retry),
        })
    }

    /// Returns the HTTP status by which a service answers. A service that knows more of the request answers itself.
    ///
    /// | status | error |
    /// |---|---|
    /// | 400 | [invalid input](Self::is_invalid_input) |
    /// | 404 | there is no such document, child or grandchild |
    /// | 409 | it exists, it is full, other documents refer to it, or the stored data conflicts in another way |
    /// | 412 | `RevisionMismatch`: another revision than the caller expected, for example by `If-Match` |
    /// | 413 | `TooLarge` |
    /// | 500 | the operator must act: log it as an error |
    /// | 503 | [transient](Self::is_transient), [unknown](Self::is_outcome_unknown), or `NewerVersion`; or a part is stored |
    ///
    /// ```
    /// # use mongo_patterns::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::LimitReached, "a patron may have 20 addresses");
    /// assert_eq!(error.http_status(), 409);
    /// ```
    pub fn http_status(&self) -> u16 {
        match self.kind() {
            _ if self.is_outcome_unknown() || self.is_transient() || self.stored_count() > Some(0) => 503,
            ErrorKind::NewerVersion => 503,
            ErrorKind::NotFound | ErrorKind::ChildNotFound | ErrorKind::GrandchildNotFound => 404,
            ErrorKind::RevisionMismatch => 412,
            ErrorKind::TooLarge => 413,
            // A setting of the program, and not of a request.
            ErrorKind::Configuration => 500,
            kind => match kind.class() {
                Class::Input => 400,
                Class::State => 409,
                _ => 500,
            },
        }
    }

    /// Sets what to do.
    #[doc(hidden)]
    #[must_use]
    pub fn with_remedy(mut self, remedy: Remedy) -> Self {
        self.0.remedy = Some(remedy);
        self
    }
}

/// Serializes everything except user values: the code of the kind and the remedy, the pattern, the operation, the
/// collection, the field, the step, the numbers, and the text.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Object<'e> {
            code: &'static str,
            remedy: Option<Remedy>,
            pattern: Option<&'static str>,
            operation: Option<&'static str>,
            namespace: Option<String>,
            field: Option<&'e str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            step: Option<&'e str>,
            attempts: Option<u32>,
            stored_count: Option<u64>,
            text: String,
        }
        let namespace = self.document_namespace().or(self.namespace());
        let object = Object {
            code: self.kind().code(),
            remedy: self.remedy(),
            pattern: self.pattern(),
            operation: self.operation(),
            namespace: namespace.map(ToString::to_string),
            field: self.0.field.as_deref(),
            step: self.step(),
            attempts: self.attempts(),
            stored_count: self.stored_count(),
            text: self.to_string(),
        };
        object.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use mongodb::Namespace;
    use mongodb::bson::{Bson, doc, serialize_to_document};
    use mongodb::error::{Error as DriverError, ErrorKind as DriverKind};

    use super::*;
    use crate::error::{CommandError, Operation};

    fn refused(code: i32) -> Error {
        let reply = doc! { "ok": 0, "code": code, "codeName": "Name", "errmsg": "" };
        let error = DriverKind::Command(mongodb::bson::deserialize_from_document(reply).unwrap());
        CommandError::of_read(DriverError::from(error)).into()
    }

    #[test]
    fn a_remedy_is_that_of_the_call_or_of_the_cause() {
        for (error, remedy) in [
            (Error::new(ErrorKind::Contention, ""), Some(Remedy::Retry)),
            (Error::new(ErrorKind::Contention, "").with_stored(1), None),
            (Error::new(ErrorKind::ServerSelection, ""), Some(Remedy::CheckAddress)),
            (refused(13), Some(Remedy::GrantRole)),
            (refused(18), Some(Remedy::CheckCredentials)),
            (refused(73), Some(Remedy::CheckNames)),
            (refused(133), Some(Remedy::Retry)),
            (refused(9), None),
            (refused(13).with_remedy(Remedy::Verify), Some(Remedy::Verify)),
        ] {
            assert_eq!(error.remedy(), remedy, "{error}");
        }
    }

    #[test]
    fn a_serialized_error_has_no_user_values() {
        let operation = Operation {
            pattern: "bucket",
            name: "append",
            namespace: Namespace::new("shop", "trades"),
        };
        let error = Error::corrupt(Bson::from("alice_1"), "history.3", "no date")
            .with_key("alice")
            .with_remedy(Remedy::SkipInvalid)
            .with_stored(2)
            .in_operation(&operation);
        let expected = doc! {
            "code": "corrupt",
            "remedy": "skip-invalid",
            "pattern": "bucket",
            "operation": "append",
            "namespace": "shop.trades",
            "field": "history.3",
            "attempts": null,
            "stored_count": 2_i64,
            "text": error.to_string(),
        };
        assert_eq!(serialize_to_document(&error).unwrap(), expected);
    }
}
