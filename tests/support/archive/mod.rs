//! Archives of the manual's sales, of books and of users.

pub mod books;
pub mod files;
pub mod sales;
pub mod users;
