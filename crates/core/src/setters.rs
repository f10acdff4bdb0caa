//! The definition of setters.

/// Defines setters of a builder or an action: a method that takes `mut self` and at most one argument, sets a field, and
/// returns `Self`. In an `impl`, or for a type.
///
/// ```text
/// setters! {
///     for Children<'a, C>:
///
///     /// Sets the maximum number of children; 100 by default.
///     limit(children: u32) => limit = children;
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (for $name:ident<$life:lifetime $(, $parameter:ident)*>: $($setters:tt)+) => {
        impl<$life $(, $parameter)*> $name<$life $(, $parameter)*> { $crate::setters! { $($setters)+ } }
    };
    (for $name:ident<$($parameter:ident),+>: $($setters:tt)+) => {
        impl<$($parameter),+> $name<$($parameter),+> { $crate::setters! { $($setters)+ } }
    };
    ($($(#[$attribute:meta])* $method:ident($($argument:ident: $type:ty)?) => $($field:ident).+ = $value:expr;)*) => {$(
        $(#[$attribute])*
        pub fn $method(mut self $(, $argument: $type)?) -> Self {
            self.$($field).+ = $value;
            self
        }
    )*};
}
