//! Counts by column, row and layer, which fold when an axis is full.

/// Columns of every grid: at 7 pixels each they fill a page's width.
pub const MAX_COLUMNS: usize = 128;

/// Counts by column, row and layer.
#[derive(Debug, Clone)]
pub struct Grid {
    rows: usize,
    layers: usize,
    /// By column, then row, then layer.
    counts: Vec<u32>,
}

impl Grid {
    /// An empty one of [`MAX_COLUMNS`] columns.
    pub(super) fn new(rows: usize, layers: usize) -> Self {
        Self { rows, layers, counts: vec![0; MAX_COLUMNS * rows * layers] }
    }

    /// Counts one.
    pub(super) fn add(&mut self, (column, row): (usize, usize), layer: usize) {
        let place = (column * self.rows + row) * self.layers + layer;
        self.counts.get_mut(place).into_iter().for_each(|count| *count = count.saturating_add(1));
    }

    /// Puts two columns each into one. Where the first is an odd one it goes into one of its own.
    pub(super) fn fold_columns(&mut self, first_is_odd: bool) {
        self.fold(|column, row| ((column + usize::from(first_is_odd)) / 2, row));
    }

    /// Puts two rows each into one.
    pub(super) fn fold_rows(&mut self) {
        self.fold(|column, row| (column, row / 2));
    }

    fn fold(&mut self, to: impl Fn(usize, usize) -> (usize, usize)) {
        let mut folded = vec![0u32; self.counts.len()];
        for ((column, row), layers) in self.cells() {
            let (column, row) = to(column, row);
            let place = (column * self.rows + row) * self.layers;
            let sums = folded.get_mut(place..).into_iter().flatten();
            sums.zip(layers).for_each(|(sum, &count)| *sum = sum.saturating_add(count));
        }
        self.counts = folded;
    }

    /// The cells that are not empty, as ((column, row), count by layer).
    pub fn cells(&self) -> impl Iterator<Item = ((usize, usize), &[u32])> {
        let cells = self.counts.chunks_exact(self.layers).enumerate();
        cells
            .filter(|(_, layers)| layers.iter().any(|&count| count > 0))
            .map(|(place, layers)| ((place / self.rows, place % self.rows), layers))
    }
}
