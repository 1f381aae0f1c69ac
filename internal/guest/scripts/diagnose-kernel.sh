# The end of the diagnosis, after the part of the service, and after refusals.sh. No single quotes in this file.
dmesg | refusals | lines kernel 20
echo "trueup-end"
