# Takes a backup through the servers, and removes the oldest ones when it is complete.
rm -f "$BACKUP_FOLDER"/*.partial
node /app/apiserver/bin/setpoint.js backup "$BACKUP_FOLDER/$(date -u +%Y-%m-%dT%H%M%SZ).backup"
ls "$BACKUP_FOLDER"/*.backup | sort | head -n "-$BACKUP_KEEP" | while read -r old; do rm "$old"; done
