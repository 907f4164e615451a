import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ControllerBuilder } from '@setpoint/controller-runtime'
import { Page, type PageObject } from './page.ts'

/** Writes each page to an HTML file in a folder, and removes the file before the deleted page goes. */
export function writeSite(controller: ControllerBuilder<PageObject>, folder: string): void {
  controller
    // Runs at the start, after each change of more than the status, and again with back-off if it throws.
    // It must be idempotent.
    .reconcile(async (page, { client, log, signal }) => {
      const file = fileOf(folder, page.metadata.name)
      await mkdir(folder, { recursive: true })
      await writeFile(file, render(page.spec), { signal })
      log.info({ file }, 'wrote page')
      const { generation, version } = page.metadata
      // Conflicts if the page has changed meanwhile; then the controller runs again.
      await client.patchStatus(Page, page, { file, observedGeneration: generation }, { version })
    })
    // A deleted page stays until this has succeeded. `force` makes it idempotent.
    .finalize('plugin-name.example.com/file', async page => {
      await rm(fileOf(folder, page.metadata.name), { force: true })
    })
}

export function fileOf(folder: string, name: string): string {
  return join(folder, `${name}.html`)
}

export function render({ title, text = '' }: { readonly title: string; readonly text?: string }): string {
  return `<!doctype html>
<title>${escapeHtml(title)}</title>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(text)}</p>
`
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>]/g, sign => `&#${sign.charCodeAt(0)};`)
}
