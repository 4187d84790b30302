//! Parts of one's own: how a crate outside this project gives a law of congestion control, an order of packets, a buffer policy
//! or a link policy to settings, which are plain values.
//!
//! What it is: settings hold a maker, which is a function, and what runs holds the object that it makes. The object implements
//! the same trait as this project's own parts, and can be copied. A maker has no name in files and recordings: whoever wants one
//! sets it in the settings that a file became. `examples/own` has one of each.
//!
//! Cost: one indirect call where this project's own parts have a jump. Determinism is up to the object: no clock, no entropy.

/// Declares a maker, and the trait of what it makes.
macro_rules! own {
    ($(#[$doc:meta])* $maker:ident($($argument:ty),*) -> $object:ident: $trait:path) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $maker(pub fn($($argument),*) -> alloc::boxed::Box<dyn $object>);

        impl PartialEq for $maker {
            /// Whether both are the same function.
            fn eq(&self, other: &$maker) -> bool {
                core::ptr::fn_addr_eq(self.0, other.0)
            }
        }

        impl Eq for $maker {}

        impl core::fmt::Debug for $maker {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(stringify!($maker))
            }
        }

        /// What a maker makes. Whatever implements the trait and can be copied is one.
        pub trait $object: $trait + core::fmt::Debug + Send + Sync {
            /// A copy of its own.
            fn copy(&self) -> alloc::boxed::Box<dyn $object>;
        }

        impl<T: $trait + Clone + core::fmt::Debug + Send + Sync + 'static> $object for T {
            fn copy(&self) -> alloc::boxed::Box<dyn $object> {
                alloc::boxed::Box::new(self.clone())
            }
        }

        impl Clone for alloc::boxed::Box<dyn $object> {
            fn clone(&self) -> alloc::boxed::Box<dyn $object> {
                (**self).copy()
            }
        }
    };
}

pub(crate) use own;
