//! Pages of items.
