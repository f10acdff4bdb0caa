//! The pages of children.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::pages::{PageStart, check_limit};
use mongo_patterns_core::{DocumentId, Result};
use mongodb::bson::RawDocumentBuf;
use serde::de::DeserializeOwned;

use crate::form::child::{decode, invalid_argument};
use crate::form::token::ChildToken;
use crate::query::page::find_page;
use crate::repository::Shared;
use crate::results::ChildPage;
use crate::settings::Settings;
use crate::settings::subset::CheckedSubset;

pub(crate) async fn page<C: DeserializeOwned>(
    shared: &Shared,
    order: Option<&str>,
    parent: Result<DocumentId>,
    start: PageStart<ChildToken>,
    limit: u32,
    conn: &mut Conn<'_>,
) -> Result<ChildPage<C>> {
    check_limit(limit)?;
    let settings = &shared.settings;
    let subset = match order {
        None => settings.first(),
        Some(field) => settings.subsets.iter().find(|subset| subset.field.as_str() == field).ok_or_else(|| {
            invalid_argument("the repository has no subset in the field of order_of(..), nothing was read: name a field of subset(..)")
        })?,
    };
    let (filter, options) = find_page(settings, subset, &parent?.into_bson(), &start, limit)?;
    // The server refuses bounds with nothing in between.
    let found = match options.min.is_some() && options.min == options.max {
        true => Ok(Vec::new()),
        false => conn.find_all(&shared.children, filter, options).await,
    };
    let mut found = found?;
    if matches!(start, PageStart::Before(_)) {
        found.reverse();
    }
    let page = of_children(settings, subset, &start, limit, &found);
    page.map_err(|error| error.of_collection(&shared.children))
}

fn of_children<C: DeserializeOwned>(
    settings: &Settings,
    subset: &CheckedSubset,
    start: &PageStart<ChildToken>,
    limit: u32,
    children: &[RawDocumentBuf],
) -> Result<ChildPage<C>> {
    let is_full = children.len() == limit as usize;
    let token = |child: Option<&RawDocumentBuf>| child.map(|child| ChildToken::of(settings, subset, child));
    let (first, last) = (token(children.first()), token(children.last()));
    let edge = |after| ChildToken::edge(settings, subset, after);
    let (before_all, after_all) = (edge(false), edge(true));
    let (first_token, last_token) = match (&first, &last, start) {
        (Some(first), Some(last), _) => (first.clone(), last.clone()),
        (.., PageStart::After(token)) => (after_all.clone(), token.clone()),
        (.., PageStart::Before(token)) => (token.clone(), before_all.clone()),
        // A child that is stored later is before the end, and after the start.
        (.., PageStart::First) => (after_all.clone(), before_all.clone()),
    };
    let [previous, next] = start.around(first, last, is_full, [before_all, after_all]);
    Ok(ChildPage {
        children: children.iter().map(|child| decode(child)).collect::<Result<_>>()?,
        next,
        previous,
        first_token,
        last_token,
    })
}
