/**
 * Lists: from query parameters to the objects of one page. `parseListQuery` refuses what the contract does not allow,
 * `runQuery` answers from one snapshot over its indexes, `pageFields` says where the page stands, and `matchesEntry`
 * tells a watch whether an object is selected. Nothing here reads the store or decodes an object, and what takes long
 * is done by turns (`Turns`), so that nobody waits for somebody else's list.
 */
export * from './continue-token.ts'
export * from './execute.ts'
export * from './list-query.ts'
export * from './match.ts'
export * from './page.ts'
export * from './selected-by-name.ts'
