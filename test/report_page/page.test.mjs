// What the page of --html does in Chromium. test_report_page.py makes the
// reports and runs this:
//
//   REPORT_PAGES=FOLDER CHROMIUM=PROGRAM node --test page.test.mjs
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

import {
  column, frames, pageTest, painted, plot, report, rows, text, widest,
} from './browser.mjs';

// Usually an answer takes a hundredth of it; the machine may be busy.
const FLUID_MS = 5_000;

pageTest('shows what the report says', 'network.html', {}, async (page) => {
  const data = await report(page);
  assert.match(await page.title(), /mobilenetv3\.onnx/);
  assert.equal(await text(page, 'h1'), 'mobilenetv3.onnx');
  for (const name of ['Live peak', 'Packed in an arena', 'Weights', 'Total',
    'Runtime, first run', 'Runtime, later runs']) {
    assert.equal(await page.locator('.card h3', { hasText: name }).count(), 1);
  }
  assert.equal(await page.locator('.passes > li').count(), data.passes.length);
  assert.equal(await page.locator('#runtime tbody tr').count(), 4);
  assert.ok(await painted(page, 'memory-chart') > 0.05);
  assert.ok(await painted(page, 'arena-chart') > 0.1);
});

pageTest('says who lives at the cursor', 'network.html', {}, async (page) => {
  const data = await report(page);
  const { live_bytes: live, name } = data.profile.after.steps;
  const box = await plot(page, 'memory-chart');
  const steps = Math.max(live.length, data.profile.before.steps.name.length);
  for (const step of [3, Math.floor(live.length / 2)]) {
    await page.mouse.move(box.x + box.width * (step + 0.5) / steps,
      box.y + box.height / 2);
    await frames(page);
    assert.match(await text(page, '.live-step'), new RegExp(`^Step ${step} `));
    assert.ok((await text(page, '.live-node')).includes(name[step]));
    const { begin, end, bytes, tensor } = data.profile.after.buffers;
    const alive = begin.map((_, i) => i)
      .filter((i) => begin[i] <= step && step < end[i])
      .sort((a, b) => bytes[b] - bytes[a] || a - b);
    assert.deepEqual(await page.locator('.live .bar-name').allInnerTexts(),
      alive.slice(0, 9).map((i) => tensor[i]));
    assert.equal(alive.reduce((sum, i) => sum + bytes[i], 0), live[step]);
  }
  // When the cursor leaves, the peak is shown again.
  await page.mouse.move(5, 5);
  const peak = live.indexOf(Math.max(...live));
  assert.match(await text(page, '.live-step'), new RegExp(`^Step ${peak} `));
});

pageTest('names the rectangle under the cursor', 'network.html', {},
  async (page) => {
    const data = await report(page);
    const { buffers, arena_bytes: arena, steps } = data.profile.after;
    const all = Math.max(steps.name.length,
      data.profile.before.steps.name.length);
    const largest = buffers.bytes.indexOf(Math.max(...buffers.bytes));
    const box = await plot(page, 'arena-chart');
    const middle = (buffers.begin[largest] + buffers.end[largest]) / 2;
    await page.mouse.move(box.x + box.width * middle / all,
      box.y + box.height * (1 - (buffers.offset_bytes[largest] +
        buffers.bytes[largest] / 2) / (1.04 * arena)));
    await frames(page);
    assert.equal(await text(page, '.tip strong'), buffers.tensor[largest]);
    assert.ok(await page.locator('.outline').first().isVisible());
    await page.mouse.down();
    await page.mouse.up();
    assert.ok(await page.locator('.outline-selected').isVisible());
    await page.mouse.move(5, 5);
    assert.ok(await page.locator('.tip').isHidden());
  });

pageTest('zooms by drag, wheel and buttons, and back', 'network.html', {},
  async (page) => {
    const before = await page.locator('#memory-chart canvas')
      .evaluate((c) => c.toDataURL());
    const arena = await page.locator('#arena-chart canvas')
      .evaluate((c) => c.toDataURL());
    const same = async () => await page.locator('#memory-chart canvas')
      .evaluate((c) => c.toDataURL()) === before;
    const box = await plot(page, 'memory-chart');
    const at = (x) => [box.x + box.width * x, box.y + box.height / 2];
    await page.mouse.move(...at(0.2));
    await page.mouse.down();
    await page.mouse.move(...at(0.3), { steps: 4 });
    await page.mouse.move(...at(0.6), { steps: 4 });
    await page.mouse.up();
    await page.mouse.move(5, 5);
    await frames(page);
    assert.ok(!await same());
    // The other chart shows the same steps.
    assert.notEqual(await page.locator('#arena-chart canvas')
      .evaluate((c) => c.toDataURL()), arena);
    await page.mouse.dblclick(...at(0.5));
    await page.mouse.move(5, 5);
    await page.locator('#zoom button', { hasText: 'Peak' }).click();
    await frames(page);
    assert.ok(await same());
    await page.mouse.move(...at(0.5));
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -240);
    await page.keyboard.up('Control');
    await page.mouse.move(5, 5);
    await frames(page);
    assert.ok(!await same());
    await page.locator('#zoom button', { hasText: 'Reset' }).click();
    await frames(page);
    assert.ok(await same());
  });

pageTest('shows the model before the passes', 'network.html', {},
  async (page) => {
    const data = await report(page);
    assert.equal(await page.locator('#side [aria-pressed=true]').innerText(),
      'After');
    await page.locator('#side button', { hasText: 'Before' }).click();
    const steps = data.profile.before.steps.name.length;
    assert.match(await text(page, '.live-step'), new RegExp(`of ${steps}$`));
    assert.ok(await painted(page, 'arena-chart') > 0.1);
  });

pageTest('searches and sorts', 'network.html', {}, async (page) => {
  const data = await report(page);
  const bytes = data.tensors.map((t) => t.bytes).sort((a, b) => b - a);
  const largest = data.tensors.find((t) => t.bytes === bytes[0]);
  assert.equal((await column(page, 'tensors', 1))[0], largest.name);
  await page.locator('#tensors th button', { hasText: 'bytes' }).click();
  assert.equal(await page.locator('#tensors th').nth(1)
    .getAttribute('aria-sort'), 'ascending');
  const names = data.tensors.map((t) => t.name).sort();
  await page.locator('#tensors th button', { hasText: 'tensor' }).click();
  assert.equal((await column(page, 'tensors', 1))[0], names[0]);

  await page.locator('#search').fill('relu GETITEM');
  const hits = data.tensors.filter((t) => {
    const words = `${t.name} ${t.producer} ${t.kind} ${t.dtype} ${t.shape}`
      .toLowerCase();
    return words.includes('relu') && words.includes('getitem');
  });
  assert.match(await text(page, '#panel-0 .count'),
    new RegExp(`^${hits.length} of ${data.tensors.length}$`));
  await page.locator('#search').fill('there is no such name');
  assert.equal(await rows(page, 'tensors').count(), 0);
  await page.locator('#search').fill('');

  await page.locator('#tab-nodes').click();
  const live = [...data.nodes, ...data.inner_nodes]
    .sort((a, b) => b.live_bytes - a.live_bytes);
  assert.equal((await column(page, 'nodes', 2))[0], live[0].name);
  assert.equal(await page.locator('#nodes').getAttribute('aria-rowcount'),
    String(live.length + 1));
});

pageTest('shows a row of the table in the charts', 'network.html', {},
  async (page) => {
    const data = await report(page);
    const { tensor, begin } = data.profile.after.buffers;
    const at = tensor.length - 3;
    await page.locator('#search').fill(tensor[at]);
    // Other names may have this one in them.
    const row = (await column(page, 'tensors', 1)).indexOf(tensor[at]);
    await rows(page, 'tensors').nth(row).click();
    assert.match(await text(page, '.live-step'),
      new RegExp(`^Step ${begin[at]} `));
    assert.ok(await page.locator('.outline-selected').isVisible());
  });

pageTest('is used by keyboard alone', 'network.html', {}, async (page) => {
  const chart = page.locator('#memory-chart');
  await chart.focus();
  await page.keyboard.press('Home');
  assert.equal(await chart.getAttribute('aria-valuenow'), '0');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Shift+ArrowRight');
  assert.equal(await chart.getAttribute('aria-valuenow'), '11');
  assert.match(await chart.getAttribute('aria-valuetext'), /^step 11, /);
  const whole = await chart.locator('canvas').evaluate((c) => c.toDataURL());
  await page.keyboard.press('+');
  await frames(page);
  assert.notEqual(
    await chart.locator('canvas').evaluate((c) => c.toDataURL()), whole);
  await page.keyboard.press('0');
  await page.keyboard.press('p');
  const data = await report(page);
  const { live_bytes: live } = data.profile.after.steps;
  assert.equal(await chart.getAttribute('aria-valuenow'),
    String(live.indexOf(Math.max(...live))));

  await page.locator('#arena-chart').focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  assert.equal(await chart.getAttribute('aria-valuenow'), '1');
  assert.equal(await page.locator('.step-mark:visible').count(), 2);

  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
  await page.keyboard.type('conv');
  await page.locator('#panel-0 .scroller').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.locator('#tensors tr.active')
    .getAttribute('aria-rowindex'), '4');
  await page.keyboard.press('Enter');
  // Everything that can be clicked can be reached, and shows that it was.
  const reached = new Set();
  await page.locator('#theme').focus();
  for (let i = 0; i < 60; ++i) {
    await page.keyboard.press('Tab');
    reached.add(await page.evaluate(() => {
      const at = document.activeElement;
      return at.id || at.closest('[id]')?.id || at.tagName;
    }));
  }
  for (const id of ['memory-chart', 'arena-chart', 'zoom', 'search', 'live',
    'tab-tensors', 'tensors']) {
    assert.ok(reached.has(id), `${id} is not reached by Tab`);
  }
});

pageTest('is dark where the system is, and by choice', 'network.html',
  { colorScheme: 'dark' }, async (page) => {
    const background = () => page.evaluate(
      () => getComputedStyle(document.body).backgroundColor);
    const brightness = async () => (await background()).match(/\d+/g)
      .slice(0, 3).reduce((sum, c) => sum + Number(c), 0);
    assert.ok(await brightness() < 150);
    const dark = await page.locator('#arena-chart canvas')
      .evaluate((c) => c.toDataURL());
    await page.locator('#theme').click();
    await frames(page);
    assert.ok(await brightness() > 600);
    assert.notEqual(await page.locator('#arena-chart canvas')
      .evaluate((c) => c.toDataURL()), dark);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.locator('#theme').click();
    assert.ok(await brightness() < 150);
  });

for (const width of [400, 2000]) {
  pageTest(`fits ${width} pixels`, 'network.html',
    { viewport: { width, height: 900 } }, async (page) => {
      const size = await widest(page);
      assert.ok(size.page <= size.window, JSON.stringify(size));
      for (const chart of ['memory-chart', 'arena-chart']) {
        const box = await plot(page, chart);
        assert.ok(box.width > width * 0.5 && box.x + box.width <= width);
      }
      await page.setViewportSize({ width: 700, height: 900 });
      await frames(page);
      const other = await widest(page);
      assert.ok(other.page <= other.window, JSON.stringify(other));
      assert.ok((await plot(page, 'arena-chart')).width < 700);
    });
}

pageTest('lets nothing of a hostile model run', 'hostile.html', {},
  async (page, wrong) => {
    const data = await report(page);
    assert.ok(data.tensors.some((t) => t.name.includes('</script>')));
    assert.ok(data.tensors.some((t) => t.name.includes('\u2028')));
    // Hover and click through all that shows names.
    for (const chart of ['memory-chart', 'arena-chart']) {
      const box = await plot(page, chart);
      for (let x = 0.05; x < 1; x += 0.1) {
        await page.mouse.move(box.x + box.width * x, box.y + box.height * 0.8);
      }
      await page.mouse.click(box.x + box.width / 2, box.y + box.height * 0.8);
    }
    await page.locator('#search').fill('<img');
    await rows(page, 'tensors').first().click();
    await page.locator('#tab-nodes').click();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    const count = (selector) => page.locator(selector).count();
    assert.equal(await count('script'), 2);
    assert.equal(await count('main img, main svg, main script'), 0);
    assert.ok((await page.locator('#nodes').innerText()).includes('<img'));
    // What would turn the direction of text is shown as an escape.
    await page.locator('#search').fill('gnp');
    assert.match(await page.locator('#nodes').innerText(), /\\u202egnp\.exe/);
    // Even if something got in: the policy refuses it.
    const refused = await page.evaluate(() => new Promise((done) => {
      document.addEventListener('securitypolicyviolation',
        (event) => done(event.effectiveDirective));
      const script = document.createElement('script');
      script.textContent = 'window.pwned = 9';
      document.body.appendChild(script);
      setTimeout(() => done('nothing'), 2000);
    }));
    assert.equal(refused, 'script-src-elem');
    assert.equal(wrong.length, 1);
    assert.match(wrong.pop(), /Content Security Policy/);
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  });

pageTest('stays fluid with 20,000 nodes', 'long.html', {}, async (page) => {
  // Not the whole report: it takes seconds to get it out of the browser.
  assert.equal(await page.evaluate(() => JSON.parse(
    document.getElementById('report').textContent)
    .profile.after.steps.name.length), 20_000);
  const timed = async (what, action) => {
    const start = Date.now();
    await action();
    await frames(page);
    const took = Date.now() - start;
    assert.ok(took < FLUID_MS, `${what} took ${took} ms`);
    console.log(`# ${what}: ${took} ms`);
  };
  const box = await plot(page, 'arena-chart');
  const at = (x, y) => [box.x + box.width * x, box.y + box.height * y];
  await timed('hover', () => page.mouse.move(...at(0.4, 0.9)));
  await page.keyboard.down('Control');
  for (let i = 0; i < 4; ++i) {
    await timed('zoom', () => page.mouse.wheel(0, -120));
  }
  await page.keyboard.up('Control');
  await timed('show all', () => page.locator('#zoom button',
    { hasText: 'Reset' }).click());
  await timed('side', () => page.locator('#side button',
    { hasText: 'Before' }).click());
  await timed('search', () => page.locator('#search').fill('node19'));
  await timed('sort', () => page.locator('#tensors th button',
    { hasText: 'made by' }).click());
  await page.locator('#search').fill('');
  const scroller = page.locator('#panel-0 .scroller');
  await timed('scroll', () => scroller.evaluate((e) => {
    e.scrollTop = e.scrollHeight / 2;
  }));
  // Only the rows in sight are elements, and they are there.
  assert.ok(await rows(page, 'tensors').count() < 80);
  const box2 = await scroller.boundingBox();
  const row = await page.evaluate(([x, y]) => document.elementFromPoint(x, y)
    .closest('tr').className, [box2.x + 40, box2.y + box2.height / 2]);
  assert.notEqual(row, 'spacer');
  await timed('theme', () => page.locator('#theme').click());
});

pageTest('shows an analysis alone', 'analyzed.html', {}, async (page) => {
  assert.equal(await page.locator('#side').count(), 0);
  assert.equal(await page.locator('#passes').count(), 0);
  assert.ok(await painted(page, 'memory-chart') > 0.05);
});

pageTest('shows a model without nodes', 'empty.html', {}, async (page) => {
  assert.match(await text(page, '#peak .hint'), /Nothing is allocated/);
  await page.locator('#memory-chart').focus();
  await page.keyboard.press('ArrowRight');
});

pageTest('shows what other versions add', 'extras.html', {}, async (page) => {
  const sessions = await text(page, '#session-options');
  assert.match(sessions, /options\.enable_mem_reuse = False\noptions\./);
  assert.match(sessions, /InferenceSession\("out\.onnx", options,\n/);
  assert.equal(await page.locator('#session-options tbody tr', {
    hasText: 'recommended' }).locator('td').nth(1).innerText(), '2.00 MiB');
  assert.match(await text(page, '#summary .notice'), /<i>held<\/i> by node x/);
  assert.match(await text(page, '#checkpoints'), /<b>kept<\/b>/);
  assert.match(await text(page, '#pareto'), /12\.5 %/);
  assert.ok(await painted(page, 'pareto-chart') > 0.005);
});

// The picture of the documentation, and more for a person to look at.
const shots = [];
if (process.env.REPORT_PICTURE) {
  shots.push([process.env.REPORT_PICTURE, 'bert.html',
    { viewport: { width: 1280, height: 1080 } }, false]);
}
if (process.env.REPORT_SHOTS) {
  const folder = process.env.REPORT_SHOTS;
  for (const [name, report, options] of [
    ['light', 'branches.html', {}],
    ['bert', 'bert.html', {}],
    ['bert-narrow', 'bert.html', { viewport: { width: 400, height: 900 } }],
    ['dark', 'network.html', { colorScheme: 'dark' }],
    ['narrow', 'network.html', { viewport: { width: 400, height: 900 } }],
    ['wide', 'network.html', { viewport: { width: 2000, height: 1100 } }],
    ['long', 'long.html', {}],
    ['hostile', 'hostile.html', {}],
    ['extras', 'extras.html', {}],
  ]) {
    shots.push([join(folder, `${name}.png`), report, options, true]);
  }
}
for (const [path, report, options, fullPage] of shots) {
  pageTest(`screenshot ${path}`, report, options, async (page) => {
    mkdirSync(dirname(path), { recursive: true });
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path, fullPage });
  });
}
