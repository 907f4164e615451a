import type { LiveList } from '../model/live-list.ts'

/** Turns pages by position. */
export function Pages({ list, turn }: { list: LiveList; turn: (page: number) => void }) {
  const { value } = list.listed
  const { page, totalPages, total, size, rows } = value ?? {
    page: 1,
    totalPages: 0,
    total: 0,
    size: 0,
    rows: [],
  }
  const first = (page - 1) * size + 1
  // From a page past the end, such as one whose objects have gone, to the last one.
  const previous = Math.max(1, Math.min(page - 1, totalPages))
  return (
    <nav aria-label="Pages" class="pages">
      <button type="button" disabled={page <= 1} onClick={() => turn(previous)}>
        Previous page
      </button>
      <span class="numbers">
        {rows.length === 0
          ? `none${total === 0 ? '' : ` of ${total.toLocaleString('en')}`}`
          : `${first.toLocaleString('en')}–${(first + rows.length - 1).toLocaleString('en')} of ${total.toLocaleString('en')}`}
      </span>
      {totalPages > 2 && (
        <label class="page">
          Page
          <input
            type="text"
            inputMode="numeric"
            value={page}
            onChange={({ currentTarget }) => {
              const wanted = Math.trunc(Number(currentTarget.value))
              if (wanted >= 1) turn(Math.min(wanted, totalPages))
              else currentTarget.value = String(page)
            }}
          />
        </label>
      )}
      <button type="button" disabled={page >= totalPages} onClick={() => turn(page + 1)}>
        Next page
      </button>
    </nav>
  )
}
