//! `Clone` for types with parameters of the caller.

/// Implements `Clone` by all fields of a type whose parameters are only in its `PhantomData`. A derived one would require
/// `Clone` of the parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! typed_clone {
    ($name:ident<$($parameter:ident),+> { $($field:ident),+ }) => {
        impl<$($parameter),+> Clone for $name<$($parameter),+> {
            fn clone(&self) -> Self {
                Self { $($field: self.$field.clone()),+ }
            }
        }
    };
}
