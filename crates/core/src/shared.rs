//! One value that many hold: settings of which a scenario has a hundred thousand copies.
//!
//! What it is: an [`Arc`] that reads like its content. Who changes it gets a copy of its own first, where others hold it too, so
//! nobody sees what another one changes. Cost: 8 bytes each holder, and a copy with the first change.

use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};

/// A value that may have other holders. To change it copies it, if it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn holders_have_one_value_until_one_of_them_changes_it() {
        let first = Shared::from([1, 2]);
        let mut second = first.clone();
        assert!(core::ptr::eq(&*first, &*second));
        second[0] = 5;
        assert_eq!((*first, *second), ([1, 2], [5, 2]));
        let place: *const _ = &*second;
        second[1] = 6;
        assert_eq!((*second, core::ptr::eq(place, &*second)), ([5, 6], true), "alone it is changed in place");
    }

    proptest! {
        #[test]
        fn it_is_to_each_holder_what_a_copy_would_be(steps in proptest::collection::vec((0usize..8, 0usize..8, any::<u8>()), 0..60)) {
            let mut shared: Vec<Shared<[u8; 3]>> = (0..8).map(|n| [n; 3].into()).collect();
            let mut copies: Vec<[u8; 3]> = shared.iter().map(|one| **one).collect();
            for (to, from, value) in steps {
                if value % 2 == 0 {
                    shared[to] = shared[from].clone();
                    copies[to] = copies[from];
                } else {
                    shared[to][from % 3] = value;
                    copies[to][from % 3] = value;
                }
                prop_assert!(shared.iter().zip(&copies).all(|(one, copy)| **one == *copy));
            }
        }
    }
}
