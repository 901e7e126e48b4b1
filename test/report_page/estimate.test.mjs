// What the page of `estimate --html` does in Chromium. test_report_page.py makes
// the pages and runs this as page.test.mjs.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import {
  frames, pageTest, painted, plot, report, rows, text, widest,
} from './browser.mjs';

const cells = (page, section, at) => page
  .locator(`#${section} tbody tr td:nth-child(${at})`).allInnerTexts();

pageTest('shows what the estimate says', 'estimate.html', {}, async (page) => {
  const data = await report(page);
  assert.match(await page.title(), /^gpt2\.onnx \u00b7 estimate/);
  assert.equal(await text(page, 'h1'), 'gpt2.onnx');
  assert.match(await text(page, '.facts'), /batch 64/);
  for (const name of ['GPU memory', 'Live at the peak', 'Saved activations']) {
    assert.equal(await page.locator('.card h3', { hasText: name }).count(), 1);
  }
  assert.deepEqual(await page.locator('#term-list .bar-name').allInnerTexts(),
    data.terms.map((term) => term.name));
  assert.ok(await painted(page, 'step-chart') > 0.05);
  assert.ok(await painted(page, 'curve-chart') > 0.005);
  assert.deepEqual(await cells(page, 'advice', 1),
    data.advice.map((row) => row.change));
  assert.deepEqual(await cells(page, 'advice', 5),
    data.advice.map((row) => row.flags));
  assert.match(await text(page, '#combination'),
    new RegExp(data.combination.flags));
  assert.deepEqual(await cells(page, 'hardware', 1),
    data.fits.map((fit) => fit.gpu));
  assert.equal(await page.locator('#recomputation details').count(), 1);
  assert.match(await text(page, '#rule'), /4 N/);
  assert.equal(await page.locator('#allocators tbody tr').count(), 5);
  assert.equal(await rows(page, 'units').first().locator('td').nth(0)
    .innerText(), [...data.units].sort(
    (a, b) => b.saved_bytes - a.saved_bytes)[0].name);
});

pageTest('says what lives at each moment', 'estimate.html', {},
  async (page) => {
    const { timeline: moments } = await report(page);
    const line = () => text(page, '#step-line');
    assert.match(await line(), /the peak\)$/);
    const box = await plot(page, 'step-chart');
    const at = Math.floor(moments.length / 4);
    await page.mouse.move(
      box.x + box.width * (at + 0.5) / moments.length, box.y + 100);
    await frames(page);
    assert.ok((await line()).includes(moments[at].unit));
    assert.match(await line(), new RegExp(`moment ${at} of`));
    await page.mouse.move(5, 5);
    await page.locator('#step-chart').focus();
    await page.keyboard.press('Home');
    assert.match(await line(), /in start \(moment 0 of/);
    await page.keyboard.press('End');
    assert.match(await line(), /optimizer step/);
    await page.keyboard.press('p');
    assert.match(await line(), /the peak\)$/);
    assert.equal(await page.locator('#step-chart')
      .getAttribute('aria-valuetext'), await line());
  });

pageTest('shows several GPUs and batches', 'estimate_many.html', {},
  async (page) => {
    const data = await report(page);
    assert.equal(await page.locator('#gpus tbody tr').count(),
      data.per_gpu.length);
    assert.equal(await page.locator('#gpus .badge').count(), 1);
    assert.match(await text(page, '#verdict'), /1\.00 GiB/);
    assert.match(await text(page, '#batches'),
      new RegExp(`${data.max_batch.toLocaleString('en-US')} samples`));
    assert.deepEqual(await cells(page, 'batches', 2),
      data.buckets.rows.map((row) => row.batch.toLocaleString('en-US')));
  });

pageTest('shows serving', 'estimate_serving.html', {}, async (page) => {
  for (const section of ['recomputation', 'gpus', 'batches', 'hardware']) {
    assert.equal(await page.locator(`#${section}`).count(), 0);
  }
  assert.ok(await painted(page, 'step-chart') > 0.05);
});

pageTest('is dark where the system is', 'estimate.html',
  { colorScheme: 'dark' }, async (page) => {
    const picture = () => page.locator('#step-chart canvas')
      .evaluate((c) => c.toDataURL());
    const dark = await picture();
    await page.locator('#theme').click();
    await frames(page);
    assert.notEqual(await picture(), dark);
  });

pageTest('fits 400 pixels', 'estimate_many.html',
  { viewport: { width: 400, height: 900 } }, async (page) => {
    const size = await widest(page);
    assert.ok(size.page <= size.window, JSON.stringify(size));
    const box = await plot(page, 'step-chart');
    assert.ok(box.width > 200 && box.x + box.width <= 400);
    const heights = await page.locator('.plain tr')
      .evaluateAll((rows) => rows.map((row) => row.offsetHeight));
    assert.ok(heights.length > 20 && Math.max(...heights) < 140,
      `${heights}`);
  });

pageTest('lets nothing of a hostile model run', 'estimate_hostile.html', {},
  async (page) => {
    const data = await report(page);
    assert.ok(data.units.some((unit) => unit.name.includes('<img')));
    const box = await plot(page, 'step-chart');
    for (let x = 0.05; x < 1; x += 0.1) {
      await page.mouse.move(box.x + box.width * x, box.y + 100);
    }
    await page.locator('details > summary').first().click();
    await page.locator('#search').fill('<img');
    assert.ok((await page.locator('#units').innerText()).includes('<img'));
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator('script').count(), 2);
    assert.equal(
      await page.locator('main img, main svg, main script').count(), 0);
  });

if (process.env.REPORT_SHOTS) {
  for (const [name, file, options] of [
    ['estimate', 'estimate.html', {}],
    ['estimate-dark', 'estimate_many.html', { colorScheme: 'dark' }],
    ['estimate-narrow', 'estimate.html',
      { viewport: { width: 400, height: 900 } }],
  ]) {
    pageTest(`screenshot ${name}`, file, options, async (page) => {
      mkdirSync(process.env.REPORT_SHOTS, { recursive: true });
      await page.screenshot({
        path: join(process.env.REPORT_SHOTS, `${name}.png`), fullPage: true,
      });
    });
  }
}
