//! Changes of embedded children.

use crate::subset::write::Change;
use crate::subset::{Documents, Parent};

/// Returns whether the repository of the embedded children refuses the parent.
pub(super) fn is_refused(documents: &Documents) -> bool {
    let is_managed = |parent: &Parent| parent.version.is_some();
    documents.marked || documents.parent.as_ref().is_some_and(is_managed)
}

/// Changes the embedded children.
pub(super) fn change_embedded(documents: &mut Documents, change: Change) {
    let Some(Parent { subset, .. }) = &mut documents.parent else {
        return;
    };
    match change {
        Change::Insert(child) => subset.push(child),
        Change::Update((id, rank)) => {
            let of_id = subset.iter_mut().filter(|child| child.0 == id);
            of_id.for_each(|child| child.1 = rank);
        }
        Change::Delete(id) => subset.retain(|child| child.0 != id),
        _ => unreachable!(),
    }
}

/// Returns whether changes are those of the newest children: the embedded ones, before the parent has a version.
pub(super) fn are_kept(documents: &Documents, mut changes: impl Iterator<Item = Change>) -> bool {
    let unmanaged = documents.parent.as_ref().filter(|parent| parent.is_unmanaged());
    let children = unmanaged.map_or(&documents.children, |parent| &parent.subset);
    let newest = |id: u8| children.iter().find(|child| child.0 == id);
    changes.all(|change| match change {
        Change::Update(child) => newest(child.0) == Some(&child),
        Change::Delete(id) => newest(id).is_none(),
        _ => true,
    })
}
