/** The group and version of the plugin's kinds. Its routes are in groups of their own, named after this one. */
export const group = 'certificates.example.com'
export const version = 'v1alpha1'
