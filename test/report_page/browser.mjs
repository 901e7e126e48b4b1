// What tests of the page of --html share: a browser, a test with one report in a
// window, and questions to it.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const require = createRequire(join(root, 'tools', 'report', 'package.json'));
const { chromium } = require('playwright-core');
const pages = process.env.REPORT_PAGES;

// A hang is a failure; nothing here takes a tenth of it.
const LIMIT_MS = 60_000;

let browser;

before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
      '--force-color-profile=srgb'],
  });
}, { timeout: LIMIT_MS });

after(() => browser?.close());

// A test with a report in a window; it fails on any error that the page has.
export function pageTest(name, report, options, body) {
  test(name, { timeout: LIMIT_MS }, async () => {
    const context = await browser.newContext({
      viewport: { width: 1280, height: 900 }, ...options,
    });
    const page = await context.newPage();
    const wrong = [];
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) {
        wrong.push(message.text());
      }
    });
    page.on('pageerror', (error) => wrong.push(String(error)));
    page.on('dialog', (dialog) => wrong.push(dialog.message()));
    page.on('request', (request) => {
      if (!/^(file|data|blob):/.test(request.url())) wrong.push(request.url());
    });
    await page.goto(pathToFileURL(join(pages, report)).href);
    await page.waitForSelector('html[data-ready]');
    await body(page, wrong);
    assert.deepEqual(wrong, []);
    await context.close();
  });
}

export const report = (page) => page.evaluate(
  () => JSON.parse(document.getElementById('report').textContent));
export const text = (page, selector) => page.locator(selector).first().innerText();
export const rows = (page, id) => page.locator(`#${id} tbody tr:not(.spacer)`);
export const column = async (page, id, at) => (await rows(page, id)
  .locator(`td:nth-child(${at})`).allInnerTexts());

// The middle of the plot of a chart, in the window.
export async function plot(page, chart) {
  const over = page.locator(`#${chart} .u-over`);
  await over.scrollIntoViewIfNeeded();
  return over.boundingBox();
}

// Two frames have been drawn since.
export const frames = (page) => page.evaluate(() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done));
}));

// Of the plot's pixels, how many are not of its most frequent colour.
export const painted = (page, chart) => page.evaluate((id) => {
  const canvas = document.querySelector(`#${id} canvas`);
  const { data } = canvas.getContext('2d')
    .getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const key = (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];
    seen.set(key, (seen.get(key) ?? 0) + 1);
  }
  return 1 - Math.max(...seen.values()) / (data.length / 4);
}, chart);

export const widest = (page) => page.evaluate(() => ({
  page: document.documentElement.scrollWidth,
  window: document.documentElement.clientWidth,
}));
