//! Linear equations with one unknown more than there are of them: the line of their solutions.

use alloc::vec;
use alloc::vec::Vec;

/// Below this share of its column's largest cell a pivot is nothing but rounding.
const NOTHING: f64 = 1e-14;

/// `size` equations in `size + 1` unknowns.
#[derive(Clone, Debug, Default)]
pub(super) struct Equations {
    size: usize,
    /// Row by row: the unknowns' coefficients, then the right-hand side.
    cells: Vec<f64>,
    /// Which unknown each column stands for.
    order: Vec<usize>,
    /// By unknown, what its column was divided by.
    scales: Vec<f64>,
}

impl Equations {
    /// Empties them.
    pub(super) fn reset(&mut self, size: usize) {
        self.size = size;
        self.cells.clear();
        self.cells.resize(size * (size + 2), 0.0);
    }

    fn width(&self) -> usize {
        self.size + 2
    }

    /// The coefficient of an unknown.
    pub(super) fn cell(&mut self, row: usize, unknown: usize) -> &mut f64 {
        let width = self.width();
        &mut self.cells[row * width + unknown]
    }

    /// The right-hand side.
    pub(super) fn right(&mut self, row: usize) -> &mut f64 {
        let unknown = self.size + 1;
        self.cell(row, unknown)
    }

    /// Puts in place of each right-hand side what `x` leaves of it.
    pub(super) fn subtract(&mut self, x: &[f64]) {
        for row in self.cells.chunks_exact_mut(self.size + 2) {
            if let Some((right, row)) = row.split_last_mut() {
                *right -= row.iter().zip(x).map(|(cell, x)| cell * x).sum::<f64>();
            }
        }
    }

    /// The direction of the line, and the way to it at a right angle. `None`: they have no line of solutions.
    pub(super) fn line(&mut self) -> Option<(Vec<f64>, Vec<f64>)> {
        let (size, width) = (self.size, self.width());
        self.scale();
        self.order.clear();
        self.order.extend(0..=size);
        for k in 0..size {
            let mut row = self.largest_below(k);
            if self.cells[row * width + k].abs() <= NOTHING {
                self.exchange(k);
                row = self.largest_below(k);
            }
            if self.cells[row * width + k].abs() <= NOTHING {
                return None;
            }
            self.swap_rows(k, row);
            self.eliminate(k);
        }
        let (mut direction, mut offset) = (vec![0.0; size + 1], vec![0.0; size + 1]);
        direction[self.order[size]] = 1.0;
        for k in (0..size).rev() {
            let row = &self.cells[k * width..(k + 1) * width];
            let (mut along, mut to) = (-row[size], row[size + 1]);
            for (cell, &unknown) in row[k + 1..size].iter().zip(&self.order[k + 1..size]) {
                along -= cell * direction[unknown];
                to -= cell * offset[unknown];
            }
            direction[self.order[k]] = along / row[k];
            offset[self.order[k]] = to / row[k];
        }
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let ahead = product(&direction, &offset) / product(&direction, &direction);
        offset.iter_mut().zip(&direction).for_each(|(offset, along)| *offset -= ahead * along);
        for (unknown, scale) in self.scales.iter().enumerate() {
            direction[unknown] /= scale;
            offset[unknown] /= scale;
        }
        Some((direction, offset))
    }

    /// One solution with the last unknown at 0. Unknowns that the equations leave open are 0 as well.
    pub(super) fn point(&mut self) -> Vec<f64> {
        const OPEN: f64 = 1e-9;
        let (size, width) = (self.size, self.width());
        self.scale();
        // Rows used so far, and for each of them the unknown that it gives.
        let mut given = Vec::with_capacity(size);
        for unknown in 0..size {
            let top = given.len();
            let rows = top..size;
            let best = rows.max_by(|a, b| {
                let cell = |row: &usize| self.cells[row * width + unknown].abs();
                cell(a).total_cmp(&cell(b))
            });
            let Some(best) = best.filter(|row| self.cells[row * width + unknown].abs() > OPEN) else { continue };
            self.swap_rows(top, best);
            let (upper, lower) = self.cells.split_at_mut((top + 1) * width);
            let pivot = &upper[top * width..];
            for row in lower.chunks_exact_mut(width) {
                let factor = row[unknown] / pivot[unknown];
                if factor != 0.0 {
                    row[unknown..].iter_mut().zip(&pivot[unknown..]).for_each(|(cell, pivot)| *cell -= factor * pivot);
                }
            }
            given.push(unknown);
        }
        let mut x = vec![0.0; size + 1];
        for (k, &unknown) in given.iter().enumerate().rev() {
            let row = &self.cells[k * width..(k + 1) * width];
            let rest: f64 = row[unknown + 1..size].iter().zip(&x[unknown + 1..size]).map(|(cell, x)| cell * x).sum();
            x[unknown] = (row[size + 1] - rest) / row[unknown];
        }
        x.iter_mut().zip(&self.scales).for_each(|(x, scale)| *x /= scale);
        x
    }

    /// Divides each column by its largest cell.
    fn scale(&mut self) {
        let (size, width) = (self.size, self.width());
        self.scales.clear();
        self.scales.resize(size + 1, 0.0);
        for row in self.cells.chunks_exact(width) {
            self.scales.iter_mut().zip(row).for_each(|(scale, cell)| *scale = scale.max(cell.abs()));
        }
        for scale in self.scales.iter_mut().filter(|scale| **scale == 0.0) {
            *scale = 1.0;
        }
        for row in self.cells.chunks_exact_mut(width) {
            row.iter_mut().zip(&self.scales).for_each(|(cell, scale)| *cell /= scale);
        }
    }

    /// The row from `k` on with the largest cell in column `k`.
    fn largest_below(&self, k: usize) -> usize {
        let cell = |row: usize| self.cells[row * self.width() + k].abs();
        (k + 1..self.size).fold(k, |best, row| if cell(row) > cell(best) { row } else { best })
    }

    /// Exchanges column `k` with the last one.
    fn exchange(&mut self, k: usize) {
        let (size, width) = (self.size, self.width());
        self.order.swap(k, size);
        for row in self.cells.chunks_exact_mut(width) {
            row.swap(k, size);
        }
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        if a != b {
            let width = self.width();
            let (upper, lower) = self.cells.split_at_mut(a.max(b) * width);
            upper[a.min(b) * width..][..width].swap_with_slice(&mut lower[..width]);
        }
    }

    /// Takes column `k` out of the rows below.
    fn eliminate(&mut self, k: usize) {
        let width = self.width();
        let (upper, lower) = self.cells.split_at_mut((k + 1) * width);
        let pivot = &upper[k * width + k..];
        for row in lower.chunks_exact_mut(width) {
            let row = &mut row[k..];
            if row[0] != 0.0 {
                let factor = row[0] / pivot[0];
                row.iter_mut().zip(pivot).for_each(|(cell, pivot)| *cell -= factor * pivot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row by row, with the right-hand side.
    fn equations<const N: usize>(rows: &[[f64; N]]) -> Equations {
        let mut equations = Equations::default();
        equations.reset(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let (right, cells) = row.split_last().unwrap();
            *equations.right(at) = *right;
            for (unknown, cell) in cells.iter().enumerate() {
                *equations.cell(at, unknown) = *cell;
            }
        }
        equations
    }

    #[track_caller]
    fn close(ours: &[f64], theirs: &[f64]) {
        assert!(ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 1e-14), "{ours:?}");
    }

    /// y + z/2 = 1 but for next to nothing of x, and x + y + z = 2.
    const PIVOT: [[f64; 4]; 2] = [[1e-20, 1.0, 0.5, 1.0], [1.0, 1.0, 1.0, 2.0]];

    #[test]
    fn the_line_of_solutions_has_a_direction_and_a_way_to_it_at_a_right_angle() {
        let (direction, offset) = equations(&PIVOT).line().unwrap();
        close(&direction, &[-0.5, -0.5, 1.0]);
        close(&offset, &[2.0 / 3.0; 3]);
        let (direction, offset) = equations(&[[1.0, 1.0, 0.0, 3.0], [1.0, -1.0, 1.0, 1.0]]).line().unwrap();
        close(&direction, &[-0.5, 0.5, 1.0]);
        close(&offset, &[11.0 / 6.0, 7.0 / 6.0, 1.0 / 3.0]);
        // In other units of y and z: the angle is right in those in which no coefficient is more than 1.
        let scaled = PIVOT.map(|[x, y, z, right]| [x, 4.0 * y, 8.0 * z, right]);
        let (direction, offset) = equations(&scaled).line().unwrap();
        close(&direction, &[-0.5, -0.125, 0.125]);
        close(&offset, &[2.0 / 3.0, 1.0 / 6.0, 1.0 / 12.0]);
    }

    #[test]
    fn any_unknown_may_be_the_free_one_and_equations_that_say_the_same_have_no_line() {
        let (direction, offset) = equations(&[[0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 2.0]]).line().unwrap();
        close(&direction, &[1.0, 0.0, 0.0]);
        close(&offset, &[0.0, 1.0, 2.0]);
        assert_eq!(equations(&[[1.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 2.0]]).line(), None);
    }

    #[test]
    fn a_point_has_the_last_unknown_at_zero_and_those_that_are_open() {
        close(&equations(&PIVOT).point(), &[1.0, 1.0, 0.0]);
        let three = [[1.0, 1.0, 0.0, 7.0, 3.0], [1.0, -1.0, 1.0, 7.0, 2.0], [0.0, 1.0, 1.0, 7.0, 3.0]];
        close(&equations(&three).point(), &[5.0 / 3.0, 4.0 / 3.0, 5.0 / 3.0, 0.0]);
        close(&equations(&[[2.0, 4.0, 1.0, 6.0], [1.0, 2.0, 5.0, 3.0]]).point(), &[3.0, 0.0, 0.0]);
    }

    #[test]
    fn what_a_point_leaves_is_what_is_missing() {
        let mut equations = equations(&PIVOT);
        equations.subtract(&[1.0, 0.5, 0.25]);
        assert_eq!([*equations.right(0), *equations.right(1)], [0.375, 0.25]);
    }
}
