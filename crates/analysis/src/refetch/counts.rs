//! Counters by class.

use super::class::Class;

/// How many GetPage of each class there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassCounts {
    counts: [u64; Class::ALL.len()],
    /// Of those in [`Class::Changed`], the ones by a compute that asks for the latest version.
    changed_by_primary: u64,
}

impl ClassCounts {
    /// Counts one more. `by_primary`: the compute asks for the latest version, so that it made every change itself.
    pub fn add(&mut self, class: Class, by_primary: bool) {
        if let Some(count) = self.counts.get_mut(class as usize) {
            *count += 1;
        }
        self.changed_by_primary += u64::from(class == Class::Changed && by_primary);
    }

    /// How many of `class` there were.
    pub fn of(&self, class: Class) -> u64 {
        self.counts.get(class as usize).copied().unwrap_or(0)
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Those of the three redundant classes.
    pub fn redundant(&self) -> u64 {
        Class::ALL.iter().filter(|class| class.is_redundant()).map(|&class| self.of(class)).sum()
    }

    /// Those that a large enough cache would have answered: unchanged pages, and pages that a primary changed, which it
    /// does in its own cache. A standby need not replay changes to pages that it does not hold, so its are left out.
    pub fn avoidable(&self) -> u64 {
        self.redundant() + self.of(Class::SameContent) + self.changed_by_primary
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.changed_by_primary += other.changed_by_primary;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_counter_of_its_own() {
        let mut counts = ClassCounts::default();
        for (ordinal, &class) in Class::ALL.iter().enumerate() {
            assert_eq!(class as usize, ordinal);
            (0..=ordinal).for_each(|_| counts.add(class, true));
        }
        assert_eq!((counts.sum(), counts.redundant(), counts.of(Class::Unproven)), (55, 3 + 4 + 5, 10));
        let mut twice = counts;
        twice.merge(&counts);
        assert_eq!((twice.sum(), twice.avoidable()), (110, 2 * counts.avoidable()));
    }

    #[test]
    fn a_change_on_a_standby_is_not_avoidable() {
        let mut counts = ClassCounts::default();
        counts.add(Class::Changed, false);
        counts.add(Class::SameContent, false);
        counts.add(Class::Changed, true);
        assert_eq!((counts.of(Class::Changed), counts.avoidable()), (2, 2));
    }
}
