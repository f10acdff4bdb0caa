//! The parts of the service, each with its list and its pages.

use maud::{Markup, html};

/// A part of the service, with one pattern.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) path: &'static str,
    pub(crate) title: &'static str,
    /// The text of a page or problem for an unknown id.
    pub(crate) unknown: &'static str,
    /// The end of the path of one of them.
    pub(crate) page: &'static str,
    pub(crate) label: &'static str,
    /// The largest id, if ids are numbers.
    pub(crate) largest: Option<u32>,
}

pub(crate) static CUSTOMERS: Section = Section {
    path: "/customers",
    title: "Customers",
    unknown: "There is no customer with this id, or the customer has no trades.",
    page: "/trades",
    label: "Number of the customer",
    largest: Some(u32::MAX),
};
pub(crate) static BOOKS: Section = Section {
    path: "/books",
    title: "Books",
    unknown: "There is no book with this id.",
    page: "",
    label: "Number of the book",
    largest: Some(i32::MAX as u32),
};
pub(crate) static PRODUCTS: Section = Section {
    path: "/products",
    title: "Products",
    unknown: "There is no product with this id.",
    page: "",
    label: "Number of the product",
    largest: Some(i32::MAX as u32),
};
pub(crate) static PATRONS: Section = Section {
    path: "/patrons",
    title: "Patrons",
    unknown: "There is no patron with this id.",
    page: "",
    label: "Id of the patron",
    largest: None,
};

pub(crate) static POLICIES: Section = Section {
    path: "/policies",
    title: "Policies",
    unknown: "There is no policy with this id.",
    page: "",
    label: "Number of the policy",
    largest: Some(i32::MAX as u32),
};

pub(crate) static ORDERS: Section = Section {
    path: "/orders",
    title: "Orders",
    unknown: "There is no order with this id.",
    page: "",
    label: "Id of the order",
    largest: None,
};
pub(crate) static BUYERS: Section = Section {
    path: "/buyers",
    title: "Buyers",
    unknown: "There is no buyer with this id.",
    page: "",
    label: "Number of the buyer",
    largest: Some(i32::MAX as u32),
};

pub(crate) static SECTIONS: [&Section; 7] = [&CUSTOMERS, &BOOKS, &PRODUCTS, &PATRONS, &POLICIES, &ORDERS, &BUYERS];

impl Section {
    /// Returns the section of a path.
    pub(crate) fn of(path: &str) -> Option<&'static Self> {
        SECTIONS.into_iter().find(|section| {
            let rest = path.strip_prefix(section.path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Returns a link to the list.
    pub(crate) fn link(&self) -> Markup {
        html! { p { a href=(self.path) { "All " (self.title.to_lowercase()) } } }
    }

    pub(crate) fn path_of(&self, id: &str, suffix: &str) -> String {
        format!("{}/{}{}{suffix}", self.path, segment(id), self.page)
    }
}

/// Percent-encodes a text as a part of a path.
pub(crate) fn segment(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
    let escaped = text.bytes().map(|byte| match byte {
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    escaped.collect()
}
