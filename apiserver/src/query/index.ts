/**
 * Lists: from query parameters to the objects of one page. `parseListQuery` rejects parameters that the contract does
 * not allow, `runQuery` reads one snapshot through its indexes, `pageFields` describes the page, and `matchesEntry`
 * tells a watch whether an object is selected. Nothing here reads the store or decodes an object. Long lists share the
 * process (`FairScheduler`), so one caller's lists do not delay another's.
 */
export * from './bounds.ts'
export * from './continue-token.ts'
export * from './execute.ts'
export * from './list-query.ts'
export * from './match.ts'
export * from './page.ts'
export * from './selected-by-name.ts'
