//! Elements of the lists of children.

use mongo_patterns_core::update::check_path;
use mongo_patterns_core::{ErrorKind, FieldName, Result};

use super::child_id::ChildId;
use crate::settings::Settings;

/// An element of a list in a child.
pub(crate) struct Grandchild {
    /// The path of the list in the child.
    pub(crate) list: String,
    /// The field of an element that identifies it.
    pub(crate) id_field: FieldName,
    pub(crate) id: ChildId,
}

impl Grandchild {
    pub(crate) fn new(settings: &Settings, list: String, id_field: String, id: ChildId) -> Result<Self> {
        let fixed = "the list is in the id of the child, which cannot be changed, nothing was sent: name another list";
        check_path(&list, &[(settings.child_id.as_str(), fixed)])?;
        let id_field = FieldName::in_array(id_field);
        let id_field = id_field.map_err(|error| error.with_kind(ErrorKind::InvalidArgument))?;
        Ok(Self { list, id_field, id })
    }
}
