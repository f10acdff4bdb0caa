//! The manual's contacts, and steps of migrations.

pub mod contacts;
pub mod steps;
