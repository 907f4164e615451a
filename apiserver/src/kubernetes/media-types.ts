/** The media type of protobuf bodies. */
export const protobufType = 'application/vnd.kubernetes.protobuf'

/** The media type of strategic merge patches. */
export const strategicMergeType = 'application/strategic-merge-patch+json'
