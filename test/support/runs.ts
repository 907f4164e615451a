/** The runs of a property: all of them in the long run (`STORES=all`), a third of them while you work. */
export const runsOf = (count: number): number => (process.env.STORES === 'all' ? count : Math.ceil(count / 3))
