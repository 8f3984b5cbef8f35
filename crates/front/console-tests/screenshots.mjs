// Screenshots of every screen, light and dark, desktop and phone, from the rows of `fake.mjs`:
//
//     CONSOLE_KIT=DIR node screenshots.mjs DIRECTORY [SCREEN,SCREEN]

import { join } from 'node:path';
import { SIZES, THEMES, launch, open } from './browser.mjs';
import { SCREENS } from './screens.mjs';
import { serve } from './serve.mjs';

const [directory = '.', only] = process.argv.slice(2);
const { url, close } = await serve();
const browser = await launch();
for (const size of Object.keys(SIZES)) {
  for (const theme of THEMES) {
    const page = await open(browser, { size, theme });
    for (const [name, [hash, ready]] of Object.entries(SCREENS)) {
      if (only && !only.split(',').includes(name)) continue;
      await page.goto(`${url}#/${hash}`);
      await page.waitForSelector(ready);
      await page.waitForTimeout(300);
      await page.screenshot({ path: join(directory, `${name}-${size}-${theme}.png`) });
    }
    if (page.wrong.length > 0) console.error(page.wrong);
    await page.context().close();
  }
}
await browser.close();
close();
