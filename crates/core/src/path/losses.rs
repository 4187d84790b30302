//! What share of a path's frames is lost: lately, and where no queue stood.
//!
//! What it is: two estimates for two questions. Whether a copy of a frame is worth its bytes asks for what is lost lately, whatever the
//! reason. Which channels are best used together asks for what the path loses by itself, over many frames: what a full queue drops says
//! nothing about that.
//!
//! | quantity | from |
//! |---|---|
//! | loss lately | all frames, each weighing a 256th less than the one after it |
//! | own loss | the last [`MEMORY`] to twice as many frames that were settled while the queue was at most [`SHORT`]: what was lost less one and a half standard deviations, since a few losses may be an accident |
//!
//! Cost: O(1) a frame. Source: ours.

use crate::units::Span;

/// What more than so many of a million frames are lost of counts as lossy.
const LOSES: u32 = 1_000;
/// Frames without a queue that are remembered at least.
const MEMORY: u32 = 8_192;
/// Of fewer frames than that nobody knows what a path loses by itself.
const UNKNOWN: u32 = 300;
/// Parts in 2^32 that are too much.
const MOST: u64 = (1 << 32) / 10;
/// Such a wait is no queue that overflows.
const SHORT: Span = Span::from_millis(20);

/// The losses of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// Parts in 2^32 that are lost lately.
    lately: u64,
    /// Frames without a queue: those that were lost, and all.
    lost: u32,
    all: u32,
}

impl Losses {
    /// A frame arrived, and frames wait so long on the path.
    #[inline]
    pub(crate) fn on_delivered(&mut self, queue: Span) {
        self.lately -= self.lately >> 8;
        self.count(queue, 0);
    }

    /// A frame was lost.
    pub(crate) fn on_lost(&mut self, queue: Span) {
        self.lately += ((1 << 32) - self.lately) >> 8;
        self.count(queue, 1);
    }

    /// One that was taken for lost arrived after all.
    pub(crate) fn on_overtaken(&mut self) {
        self.lately -= self.lately.min((1 << 32) >> 8);
        self.lost = self.lost.saturating_sub(1);
    }

    #[inline]
    fn count(&mut self, queue: Span, lost: u32) {
        if self.lately > MOST {
            (self.lost, self.all) = (0, 0);
            return;
        }
        if queue > SHORT {
            return;
        }
        self.lost += lost;
        self.all += 1;
        if self.all >= 2 * MEMORY {
            (self.lost, self.all) = (self.lost / 2, self.all / 2);
        }
    }

    /// Whether more than one frame in a thousand is lost lately.
    #[inline]
    pub(crate) fn loses(&self) -> bool {
        self.ppm() >= LOSES
    }

    /// The part of frames that is lost lately, in millionths.
    #[inline]
    pub(crate) fn ppm(&self) -> u32 {
        ((self.lately * 1_000_000) >> 32) as u32
    }

    /// The part of frames that the path surely loses by itself, in millionths; `None` where too little is known, and where a tenth is lost lately: whether such a path
    /// is used at all is another question ([`worth`](super::worth)).
    pub(crate) fn own_ppm(&self) -> Option<u32> {
        let lost = u64::from(self.lost);
        let surely = lost.saturating_sub((9 * lost).isqrt().div_ceil(2));
        (self.all >= UNKNOWN).then(|| (surely * 1_000_000 / u64::from(self.all)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of every `of` frames one is lost.
    fn losses(frames: u32, of: u32, queue: Span) -> Losses {
        let mut losses = Losses::default();
        for n in 0..frames {
            if n % of == of - 1 { losses.on_lost(queue) } else { losses.on_delivered(queue) }
        }
        losses
    }

    #[test]
    fn the_own_loss_is_the_share_of_many_frames_without_a_queue() {
        for of in [20, 57, 100] {
            let ppm = losses(50_000, of, Span::from_millis(20)).own_ppm().unwrap();
            assert!((830_000..1_000_000).contains(&(ppm * of)), "one of {of}: {ppm}");
        }
        assert_eq!(losses(299, 20, Span::ZERO).own_ppm(), None, "too few");
        assert_eq!(losses(300, 20, Span::ZERO).own_ppm(), Some(9 * 1_000_000 / 300));
        assert_eq!(losses(50_000, 20, Span::from_millis(21)).own_ppm(), None, "a queue may have dropped them");
        assert_eq!(losses(50_000, 5, Span::ZERO).own_ppm(), None, "too much");
    }

    #[test]
    fn a_few_losses_may_be_an_accident() {
        for (lost, surely) in [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (9, 4), (16, 10)] {
            let mut losses = losses(1000 - lost, u32::MAX, Span::ZERO);
            (0..lost).for_each(|_| losses.on_lost(Span::ZERO));
            assert_eq!(losses.own_ppm(), Some(surely * 1000), "{lost} of 1000");
        }
    }

    #[test]
    fn what_a_path_lost_once_is_forgotten() {
        let mut losses = losses(20_000, 20, Span::ZERO);
        (0..50_000).for_each(|_| losses.on_delivered(Span::ZERO));
        assert!(losses.own_ppm().unwrap() < 5_000, "{losses:?}");
        assert!(!losses.loses());
    }

    #[test]
    fn one_that_arrives_after_all_was_not_lost() {
        let mut losses = losses(2_000, 20, Span::ZERO);
        for _ in 0..100 {
            losses.on_overtaken();
        }
        assert_eq!(losses.own_ppm(), Some(0));
        losses.on_overtaken();
        assert_eq!((losses.own_ppm(), losses.loses()), (Some(0), false));
    }
}
