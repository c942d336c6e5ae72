//! A table by small numbers: of tasks, CPUs, cgroups.

/// A value for each number. Those that nothing was said of have the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dense<T>(Vec<T>);

impl<T: Clone + Default> Dense<T> {
    /// The value of a number.
    pub fn get(&self, at: usize) -> T
    where
        T: Copy,
    {
        self.0.get(at).copied().unwrap_or_default()
    }

    /// What was said of a number, to look at; none where nothing was yet.
    pub fn peek(&self, at: usize) -> Option<&T> {
        self.0.get(at)
    }

    /// What was said of a number, to write to.
    pub fn at(&mut self, at: usize) -> &mut T {
        if self.0.len() <= at {
            self.0.resize(at + 1, T::default());
        }
        &mut self.0[at]
    }

    /// All numbers that something was said of, and others below them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0.iter().enumerate()
    }

    /// All that was said, to write to.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
