//! Draws the loss curve and the digits that were got wrong.

use crate::data::Pixels;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

/// A digit taken for another.
pub struct Wrong {
    /// The image.
    pub pixels: Pixels,
    /// What it shows.
    pub digit: u8,
    /// What it was taken for.
    pub guess: u8,
}

const WIDTH: u32 = 900;
const CURVE: u32 = 420;
const CELL: i32 = 90;
const PIXEL: i32 = 8;
const COLUMNS: i32 = WIDTH as i32 / CELL;

/// Writes an SVG file.
pub fn draw(path: &Path, losses: &[f32], wrong: &[Wrong]) -> Result<(), Box<dyn Error>> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let rows = (wrong.len() as i32 + COLUMNS - 1) / COLUMNS;
    let height = CURVE + 40 + (rows * CELL) as u32;
    let page = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    page.fill(&WHITE)?;
    let (curve, digits) = page.split_vertically(CURVE);
    draw_curve(&curve, losses)?;
    let heading = format!("{} test digits taken for another: true → guess", wrong.len());
    digits.draw(&Text::new(heading, (20, 10), ("sans-serif", 16)))?;
    for (index, wrong) in wrong.iter().enumerate() {
        let index = index as i32;
        draw_digit(&digits, wrong, (index % COLUMNS * CELL + 12, index / COLUMNS * CELL + 36))?;
    }
    page.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_curve(area: &Area, losses: &[f32]) -> Result<(), Box<dyn Error>> {
    let most = losses.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let mut chart = ChartBuilder::on(area)
        .caption("training loss (cross-entropy, nats)", ("sans-serif", 18))
        .margin(15)
        .x_label_area_size(40)
        .y_label_area_size(55)
        .build_cartesian_2d(0..losses.len(), 0f32..most * 1.05)?;
    chart.configure_mesh().x_desc("step").y_desc("loss").draw()?;
    chart.draw_series(LineSeries::new(losses.iter().copied().enumerate(), &BLUE))?;
    Ok(())
}

fn draw_digit(area: &Area, wrong: &Wrong, (left, top): (i32, i32)) -> Result<(), Box<dyn Error>> {
    for (index, ink) in wrong.pixels.iter().enumerate() {
        let (x, y) = (left + index as i32 % 8 * PIXEL, top + index as i32 / 8 * PIXEL);
        let shade = 255 - (ink * 255.0) as u8;
        area.draw(&Rectangle::new([(x, y), (x + PIXEL, y + PIXEL)], RGBColor(shade, shade, shade).filled()))?;
    }
    let label = format!("{} → {}", wrong.digit, wrong.guess);
    area.draw(&Text::new(label, (left + 18, top + 8 * PIXEL + 4), ("sans-serif", 14)))?;
    Ok(())
}
