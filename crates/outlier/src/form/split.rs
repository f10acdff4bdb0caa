//! Divides a new document into the stored main document and the elements beyond the threshold.

use mongo_patterns_core::array::{self, Encoded};
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, size};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::CString;
use mongodb::bson::{self, Bson, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use serde::Serialize;

use crate::form::document::elements_of;
use crate::form::equality;
use crate::settings::Settings;

/// A new document.
pub(crate) struct Split {
    pub(crate) id: Bson,
    pub(crate) main: RawDocumentBuf,
    /// The elements for the overflow documents.
    pub(crate) rest: Vec<Encoded>,
}

impl Split {
    pub(crate) fn new<D: Serialize>(settings: &Settings, document: &D) -> Result<Self> {
        let whole = bson::serialize_to_raw_document_buf(document).map_err(|error| {
            let message = "the document cannot be encoded as BSON, nothing was stored: change its type";
            Error::from_driver(ErrorKind::Encode, message, error)
        })?;
        let (array, flag) = (settings.array.as_str(), settings.flag.as_str());
        let elements = elements_of(&whole, array).map_err(|_| {
            invalid("the array field of the document is not an array, nothing was stored: change its type")
        })?;
        let elements: Vec<RawBsonRef<'_>> = elements.collect();
        for element in &elements {
            equality::check_element(settings, *element)?;
        }
        let inline = elements.len().min(settings.threshold as usize);
        let encode = |elements: &[RawBsonRef<'_>]| elements.iter().map(Encoded::one).collect::<Result<Vec<_>>>();
        let rest = encode(&elements[inline..])?;
        array::check_sizes(1, rest.iter())?;
        if settings.unique && equality::has_duplicates(&elements) {
            return Err(invalid(
                "the array has an element twice and elements are unique, nothing was stored: remove the duplicate",
            ));
        }
        let kept = encode(&elements[..inline])?;
        let id = match whole.get("_id").ok().flatten() {
            Some(id) => DocumentId::new(Bson::try_from(id).map_err(CommandError::from)?)?.into_bson(),
            None => Bson::ObjectId(ObjectId::new()),
        };
        let flag_name = || CString::try_from(flag).map_err(CommandError::from);
        let mut main = RawDocumentBuf::new();
        main.append(cstr!("_id"), RawBson::try_from(id.clone()).map_err(CommandError::from)?);
        let mut has_flag = false;
        for field in &whole {
            let (name, value) = field.map_err(CommandError::from)?;
            match name.as_str() {
                "_id" => {}
                name if name == array && !rest.is_empty() => {
                    main = array::append_array(main, array, kept.iter())?;
                }
                name if name == flag => {
                    has_flag = true;
                    main.append(flag_name()?, !rest.is_empty());
                }
                _ => main.append(name, value),
            }
        }
        if !has_flag && !rest.is_empty() {
            main.append(flag_name()?, true);
        }
        size::check(&main)?;
        Ok(Self { id, main, rest })
    }
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
